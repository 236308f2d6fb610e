package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Token orders the holders of one name: a later holder has a higher token,
// over release, expiry, deletion, failover and restore. Zero means "none".
type Token int64

// MaxToken is the largest token that any authority hands out. It is the largest
// integer that a float64, and so a JSON number, carries exactly.
const MaxToken Token = 1<<53 - 1

// Valid reports whether t can be a holder's token: 1 to MaxToken.
func (t Token) Valid() bool { return t >= 1 && t <= MaxToken }

// Grant names one grant of an authority: the token that orders it and the nonce
// that tells it from any other grant, even one with the same number (an
// authority restored from a backup repeats numbers, never nonces).
//
// What travels, in an environment variable, a header or an SQL argument, is its
// string form "token.nonce"; the number alone is for people.
type Grant struct {
	Token Token
	Nonce string
}

// maxNonce bounds what a fence has to store beside the token.
const maxNonce = 64

// IsZero reports whether g is the zero Grant, which no holder has.
func (g Grant) IsZero() bool { return g == Grant{} }

// String is the form that travels: "12.k3f9".
func (g Grant) String() string {
	return strconv.FormatInt(int64(g.Token), 10) + "." + g.Nonce
}

// Validate says what is wrong with g, or nil. A nonce is 1 to 64 characters of
// A-Z, a-z, 0-9, '-' and '_', so that a grant string needs no quoting anywhere.
func (g Grant) Validate() error {
	if !g.Token.Valid() {
		return fmt.Errorf("fence: token %d is outside 1 to %d", g.Token, MaxToken)
	}
	if g.Nonce == "" || len(g.Nonce) > maxNonce {
		return fmt.Errorf("fence: a grant's nonce has 1 to %d characters, this one %d", maxNonce, len(g.Nonce))
	}
	if i := strings.IndexFunc(g.Nonce, notNonce); i >= 0 {
		return fmt.Errorf("fence: nonce %q has a character outside A-Z, a-z, 0-9, '-' and '_'", g.Nonce)
	}
	return nil
}

func notNonce(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// ErrWeak is what ParseGrant's error matches when the string names a grant of
// an authority that may forget it (see Weak).
var ErrWeak = errors.New("the grant comes from an authority that may hand out the same token twice")

// ParseGrant reads the string form. The error says which part is wrong; it
// matches ErrWeak for a Weak grant, which no fence may admit.
func ParseGrant(s string) (Grant, error) {
	if strings.HasPrefix(s, weakPrefix) {
		return Grant{}, fmt.Errorf("fence: grant %q: %w: a fence cannot order its holders", s, ErrWeak)
	}
	number, nonce, ok := strings.Cut(s, ".")
	if !ok {
		return Grant{}, fmt.Errorf("fence: grant %q is not of the form token.nonce, as in 12.k3f9 (a token alone does not tell two grants apart)", s)
	}
	t, err := parseToken(number)
	if err != nil {
		return Grant{}, fmt.Errorf("fence: grant %q: %w", s, err)
	}
	g := Grant{Token: t, Nonce: nonce}
	if err := g.Validate(); err != nil {
		return Grant{}, err
	}
	return g, nil
}

// parseToken takes plain digits only: "+7", "007" and " 7" are other strings
// for the same number, and what travels must have one form.
func parseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s || !Token(n).Valid() {
		return 0, fmt.Errorf("token %q is not a whole number from 1 to %d", s, MaxToken)
	}
	return Token(n), nil
}

// Weak is a grant of an authority that is good for efficiency only (a single
// Redis, Redlock): after a failover it may hand out the same number again. It
// is a type of its own, so that handing one to a fence does not compile; its
// string form says it too.
type Weak struct {
	Token Token
	Nonce string
}

const weakPrefix = "weak-"

// String is "weak-12.k3f9", which ParseGrant refuses.
func (w Weak) String() string { return weakPrefix + Grant(w).String() }
