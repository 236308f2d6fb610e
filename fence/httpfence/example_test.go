package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

// A service refuses the worker that lost its lease. Its fence would be a
// *sqlfence.Fence, and the write an InTx of it.
func Example() {
	fences := fence.NewMemory()
	door, err := gate.New(fences, gate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := httptest.NewServer(httpfence.Handler(door, httpfence.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, _ := httpfence.FromContext(r.Context())
		if err := fences.Do(r.Context(), claim, func() error { return nil }); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})))
	defer service.Close()

	// Two grants that were handed over; with a *stint.Lease it is Holder: lease.
	for _, s := range []string{"7.a", "12.b", "7.a"} {
		grant, err := fence.ParseGrant(s)
		if err != nil {
			fmt.Println(err)
			return
		}
		holder := httpfence.Claim(context.Background(), fence.Claim{Name: "billing", Grant: grant})
		client := &http.Client{Transport: &httpfence.Transport{Holder: holder}}
		resp, err := client.Post(service.URL, "text/plain", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		refused := httpfence.Refused(resp)
		resp.Body.Close()
		fmt.Println(s, resp.StatusCode, errors.Is(refused, fence.ErrStale))
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	// Output:
	// 7.a 200 false
	// 12.b 200 false
	// 7.a 409 true
}
