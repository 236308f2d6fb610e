// Package httpfence carries a lease's fencing token over HTTP: a transport that
// stamps requests with it, and a handler that lets them in by a fence.
//
// The client's side:
//
//	client := &http.Client{Transport: &httpfence.Transport{Holder: lease}}
//
// The server's side:
//
//	door, err := gate.New(fences, gate.Options{})
//	http.Handle("POST /invoices", httpfence.Handler(door, httpfence.Options{}, handler))
//
// and in the handler, the write:
//
//	claim, _ := httpfence.FromContext(r.Context())
//	err := fences.InTx(r.Context(), claim, nil, func(tx *sql.Tx) error { … })
//
// Alone, without InTx, this promises the order of admission only: once token 12
// was let in, 7 is not. A request of 7 that was let in before may still write
// after 12 has. So the check that protects data is the one in the write's own
// transaction; the one at the door saves work, and tells a late holder early. For
// effects that have no transaction there is gate.Options.Drain, within one
// process.
//
// The token keeps honest holders apart. It is no authentication: whoever may send
// requests may also send a higher token, and so shut out the holder.
package httpfence
