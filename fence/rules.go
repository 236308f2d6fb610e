package fence

import "fmt"

// CheckWrite says why a write of g is not admitted by the row, or nil if it is:
// a write needs exactly the grant that raised the fence. It is the rule that
// every fence keeps in the same atomic step as the write.
func (r Row) CheckWrite(g Grant) error {
	switch {
	case r.Fence > g.Token:
		return &StaleError{Name: r.Name, Presented: g.Token, Fence: r.Fence}
	case r.Fence == g.Token && r.Nonce == g.Nonce:
		return nil
	case r.Fence == g.Token && r.Nonce != "":
		return &RepeatedError{Name: r.Name, Presented: g, Admitted: Grant{r.Fence, r.Nonce}}
	}
	return fmt.Errorf("fence %q: %w for token %d: it stands at %d. Nothing was written; a holder raises the fence before its first write",
		r.Name, ErrNotRaised, g.Token, r.Fence)
}

// CheckRaise says why g may not raise the row, or nil if it may. repeated tells
// that g is the grant that raised it before. A fence of the same token without
// a nonce was set by hand, to shut out the tokens before it: the first grant
// with that token is let in.
func (r Row) CheckRaise(g Grant) (repeated bool, err error) {
	switch {
	case r.Fence > g.Token:
		return false, &StaleError{Name: r.Name, Presented: g.Token, Fence: r.Fence, AtRaise: true}
	case r.Fence < g.Token || r.Nonce == "":
		return false, nil
	case r.Nonce == g.Nonce:
		return true, nil
	}
	return false, &RepeatedError{Name: r.Name, Presented: g, Admitted: Grant{r.Fence, r.Nonce}}
}

// CheckFloor says why g may not raise a name that has no row, or nil if it may.
// The floor stands for the rows that were pruned: every one of their tokens was
// at most the floor, and one that equals it belonged to another grant.
func CheckFloor(name string, floor Token, g Grant) error {
	if g.Token <= floor {
		return &StaleError{Name: name, Presented: g.Token, Fence: floor, AtRaise: true}
	}
	return nil
}
