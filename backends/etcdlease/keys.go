package etcdlease

import "strings"

// keyspace names the keys. They are made to be read by people:
//
//	stint/lock/billing/x7q2   a place in billing's line; the oldest holds it
//	stint/floor/billing       tokens below this key's revision are not used
//	stint/client/x7q2         the guard of one client's lease
type keyspace struct{ prefix string }

// A slash separates, so one in a name is written %2F, and then % itself %25.
var escaper = strings.NewReplacer("%", "%25", "/", "%2F")
var unescaper = strings.NewReplacer("%25", "%", "%2F", "/")

// locks is what all places begin with.
func (k keyspace) locks() string { return k.prefix + "/lock/" }

// line is what the places of one name begin with.
func (k keyspace) line(name string) string { return k.prefix + "/lock/" + escaper.Replace(name) + "/" }

// place is the key of one place, named after its client; of more than one that a
// client has in the line of a name, with a number.
func (k keyspace) place(name, who string) string { return k.line(name) + who }

func (k keyspace) floor(name string) string { return k.floors() + escaper.Replace(name) }

// floors is what all floors begin with. It lies before locks, with nothing else
// in between, so that one watch sees both.
func (k keyspace) floors() string { return k.prefix + "/floor/" }

func (k keyspace) floorName(key string) (string, bool) {
	escaped, ok := strings.CutPrefix(key, k.floors())
	return unescaper.Replace(escaped), ok
}

func (k keyspace) guard(client string) string { return k.prefix + "/client/" + client }

// name reads the name out of a place's key.
func (k keyspace) name(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.locks())
	escaped, _, ok2 := strings.Cut(rest, "/")
	return unescaper.Replace(escaped), ok && ok2
}
