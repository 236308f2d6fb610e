package fence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of a lease or fence, in bytes.
const MaxName = 1024

// CheckName says what is wrong with a name, or nil. A name is 1 to MaxName
// bytes of valid UTF-8 without control characters. Nothing else is special:
// slashes, dots, spaces, '%' and '#' are kept as they are, and two names are
// the same only if their bytes are.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty: a lease needs a name of 1 to %d bytes", MaxName)
	case len(name) > MaxName:
		return fmt.Errorf("the name is %d bytes long: at most %d are kept (it begins %.40q)", len(name), MaxName, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %.60q is not valid UTF-8: it could not be shown or stored everywhere", name)
	}
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return fmt.Errorf("the name %.60q has a control character at byte %d", name, i)
	}
	return nil
}
