package billing

import (
	"context"
	"fmt"
	"strconv"
)

// Count is what the database says of all invoices when the job is over.
type Count struct {
	Once  int `json:"once"`  // invoices that were charged exactly once
	Twice int `json:"twice"` // invoices that were charged twice
	More  int `json:"more"`  // invoices that were charged three times or more
	Never int `json:"never"` // invoices that were not charged
	Wrong int `json:"wrong"` // charges of another amount than the invoice's, or of no invoice
}

// OK tells that every customer was billed once, and for the right amount.
func (c Count) OK() bool { return c.Twice+c.More+c.Never+c.Wrong == 0 }

// String is the verdict in one line: "50,000 charged once, 0 twice, 0 never".
func (c Count) String() string {
	s := fmt.Sprintf("%s charged once, %s twice, %s never", comma(c.Once), comma(c.Twice), comma(c.Never))
	if c.More > 0 {
		s += fmt.Sprintf(", %s three times or more", comma(c.More))
	}
	if c.Wrong > 0 {
		s += fmt.Sprintf(", %s charges are wrong", comma(c.Wrong))
	}
	return s
}

// Explain says why the count is what it is, in the run that was unfenced or not.
func (c Count) Explain(unfenced bool) string {
	switch {
	case c.OK() && unfenced:
		return "No customer was charged twice this time, and nothing but luck prevented it: run it again."
	case c.OK():
		return "A's check of its lease had passed, and yet its write came after its lease was over.\n" +
			"The store refused it, in the very transaction that would have charged the customers:\n" +
			"its token is lower than the fence."
	case unfenced:
		return fmt.Sprintf("%s customers were charged more than once. A's check of its lease had passed before\n"+
			"it was frozen, and when its write arrived, nobody asked whether it still held the lease.\n"+
			"No check on the worker's own side can prevent this. The fence does, in the store's own\n"+
			"transaction: run it without --unfenced.", comma(c.Twice+c.More))
	}
	return "The fence was in place, so this must not happen. Please report it, with the output of\n--json and the databases that --keep leaves."
}

const perInvoice = `
SELECT coalesce(sum(CASE WHEN n = 1 THEN 1 END), 0), coalesce(sum(CASE WHEN n = 2 THEN 1 END), 0),
  coalesce(sum(CASE WHEN n > 2 THEN 1 END), 0), coalesce(sum(CASE WHEN n = 0 THEN 1 END), 0)
FROM (SELECT count(c.invoice) AS n FROM {p}invoices i LEFT JOIN {p}charges c ON c.invoice = i.id GROUP BY i.id) AS per_invoice`

const wrongCharges = `
SELECT count(*) FROM {p}charges c LEFT JOIN {p}invoices i ON i.id = c.invoice WHERE i.cents IS NULL OR i.cents <> c.cents`

// Count looks at every invoice and at every charge.
func (s *Store) Count(ctx context.Context) (Count, error) {
	var c Count
	if err := s.DB.QueryRowContext(ctx, s.q(perInvoice)).Scan(&c.Once, &c.Twice, &c.More, &c.Never); err != nil {
		return Count{}, err
	}
	if err := s.DB.QueryRowContext(ctx, s.q(wrongCharges)).Scan(&c.Wrong); err != nil {
		return Count{}, err
	}
	return c, nil
}

// comma groups the digits of a number by thousands.
func comma(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
