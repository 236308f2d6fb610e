package etcdcluster

import "time"

// between calls f with the links and directions on which bytes from member i go
// to member j: what i sends on connections that it dialled, and what it answers
// on those that j dialled. etcd uses both.
func (c *Cluster) between(i, j int, f func(*Link, Direction)) {
	f(c.members[j].from[i], Out)
	f(c.members[i].from[j], Back)
}

// CutBetween stops what member i sends to member j; what j sends still arrives.
func (c *Cluster) CutBetween(i, j int) {
	c.between(i, j, func(l *Link, d Direction) { l.Cut(d) })
}

// OpenBetween undoes CutBetween.
func (c *Cluster) OpenBetween(i, j int) {
	c.between(i, j, func(l *Link, d Direction) { l.Open(d) })
}

// DelayBetween makes what member i sends to member j arrive later by d.
func (c *Cluster) DelayBetween(i, j int, d time.Duration) {
	c.between(i, j, func(l *Link, way Direction) { l.Delay(d, way) })
}

// Isolate cuts member i off from all other members, both ways. Clients still
// reach it.
func (c *Cluster) Isolate(i int) {
	c.others(i, func(j int) { c.CutBetween(i, j); c.CutBetween(j, i) })
}

// CutOff cuts member i off from everybody, clients included, both ways.
func (c *Cluster) CutOff(i int) {
	c.Isolate(i)
	c.clients(i, func(l *Link) { l.Cut() })
}

// Rejoin undoes Isolate and CutOff.
func (c *Cluster) Rejoin(i int) {
	c.others(i, func(j int) { c.OpenBetween(i, j); c.OpenBetween(j, i) })
	c.clients(i, func(l *Link) { l.Open() })
}

func (c *Cluster) others(i int, f func(j int)) {
	for j := range c.members {
		if j != i {
			f(j)
		}
	}
}

// clients calls f with every client's link to member i.
func (c *Cluster) clients(i int, f func(*Link)) {
	f(c.members[i].direct)
	for _, d := range c.allDoors() {
		f(d.Links[i])
	}
}
