package fence

// Sequence is the holder's own count of the transactions that it committed
// under one claim. It belongs to the fence implementation that made the claim;
// holders only carry it.
type Sequence struct{}
