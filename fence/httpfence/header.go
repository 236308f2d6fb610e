package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// The two header fields of a fenced request. There is no standard for them. The
// names have no "X-" (RFC 6648); the values are no structured fields, so that a
// shell can send what it has: -H "Fencing-Token: $STINT_GRANT".
const (
	// HeaderToken carries the grant string, "12.k3f9": the token and the nonce
	// that tells two grants of one number apart.
	HeaderToken = "Fencing-Token"
	// HeaderName carries the name of the lease, as EncodeName writes it.
	HeaderName = "Fencing-Name"
)

// Errors of ReadHeader, for errors.Is.
var (
	// ErrMissing: one of the two header fields, or both, are not there.
	ErrMissing = errors.New("the request carries no fencing token")
	// ErrMalformed: a header field is there twice, or cannot be read.
	ErrMalformed = errors.New("the fencing token cannot be read")
)

// SetHeader stamps a request's header by hand; Transport does it for you. It
// replaces what is there.
func SetHeader(h http.Header, name string, g fence.Grant) {
	h.Set(HeaderToken, g.String())
	h.Set(HeaderName, EncodeName(name))
}

// ReadHeader reads what SetHeader wrote. The error matches ErrMissing or
// ErrMalformed, and fence.ErrWeak for the grant of an authority that may repeat
// itself, which no fence admits.
func ReadHeader(h http.Header) (name string, g fence.Grant, err error) {
	token, err := one(h, HeaderToken)
	if err != nil {
		return "", fence.Grant{}, err
	}
	encoded, err := one(h, HeaderName)
	if err != nil {
		return "", fence.Grant{}, err
	}
	if g, err = fence.ParseGrant(token); err != nil {
		return "", fence.Grant{}, fmt.Errorf("%w: header %s: %w", ErrMalformed, HeaderToken, err)
	}
	if name, err = DecodeName(encoded); err != nil {
		return "", fence.Grant{}, fmt.Errorf("%w: header %s: %w", ErrMalformed, HeaderName, err)
	}
	return name, g, nil
}

// one takes a field that must be there exactly once. Of two, nobody could say
// which the sender meant, and which a proxy added.
func one(h http.Header, field string) (string, error) {
	switch v := h.Values(field); {
	case len(v) == 0 || len(v) == 1 && v[0] == "":
		return "", fmt.Errorf("%w: header %s is missing (both %s and %s are needed)", ErrMissing, field, HeaderToken, HeaderName)
	case len(v) > 1:
		return "", fmt.Errorf("%w: header %s is there %d times", ErrMalformed, field, len(v))
	default:
		return v[0], nil
	}
}

// EncodeName writes a name in visible ASCII: letters, digits and most signs as
// they are; '%', ',', ';', '"', '\', spaces and all bytes beyond ASCII as %XX,
// as in a URL. "billing/2026-09" stays itself.
func EncodeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// plain bytes stand for themselves. The comma is none, because a proxy joins two
// fields of one name by it; nor are those that quote or part values elsewhere.
func plain(c byte) bool {
	return c > ' ' && c < 0x7f && !strings.ContainsRune(`%,;"\`, rune(c))
}

// DecodeName reads a name as EncodeName writes it, or with more of its bytes
// escaped, as other languages' URL functions do ('+' is a plus sign). What it
// reads is a valid name (fence.CheckName).
func DecodeName(s string) (string, error) {
	if len(s) > 3*fence.MaxName {
		return "", fmt.Errorf("the name is %d bytes long in its escaped form: at most %d can be right", len(s), 3*fence.MaxName)
	}
	for i := range len(s) {
		if c := s[i]; c != '%' && !plain(c) {
			return "", fmt.Errorf("the name %.60q has the byte %q at %d, which must be written %%%02X", s, c, i, c)
		}
	}
	name, err := url.PathUnescape(s)
	if err != nil {
		return "", fmt.Errorf("the name %.60q has a '%%' without two hexadecimal digits: %w", s, err)
	}
	if err := fence.CheckName(name); err != nil {
		return "", err
	}
	return name, nil
}
