package etcdcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"google.golang.org/grpc/stats"
)

// Status is what a member says of itself, past all gates, users and
// certificates.
type Status struct {
	ID, Leader uint64 // Leader is 0 while it knows of none
	Term       uint64
	Revision   int64
	Ready      bool // it has joined the cluster and serves requests
}

// handler serves the member's own view, and etcd's metrics.
func (m *member) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		s := Status{
			ID: uint64(m.etcd.Server.MemberID()), Leader: uint64(m.etcd.Server.Leader()),
			Term: m.etcd.Server.Term(), Revision: m.etcd.Server.KV().Rev(),
		}
		select {
		case <-m.etcd.Server.ReadyNotify():
			s.Ready = true
		default:
		}
		json.NewEncoder(w).Encode(s)
	})
	mux.HandleFunc("/counts", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(m.counts.read())
	})
	etcdhttp.HandleMetrics(mux)
	return mux
}

// counts counts the messages that clients sent, by method: one for a plain
// request, one for each message of a stream (a keep-alive, a watch's creation).
type counts struct {
	mu sync.Mutex
	n  map[string]int64
}

func newCounts() *counts { return &counts{n: map[string]int64{}} }

func (c *counts) read() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

type methodKey struct{}

// TagRPC notes the method for HandleRPC.
func (c *counts) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, strings.TrimPrefix(info.FullMethodName, "/etcdserverpb."))
}

// HandleRPC counts one message from a client.
func (c *counts) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InPayload); !ok {
		return
	}
	method, _ := ctx.Value(methodKey{}).(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[method]++
}

// TagConn is part of stats.Handler.
func (c *counts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is part of stats.Handler.
func (c *counts) HandleConn(context.Context, stats.ConnStats) {}

// ask gets what a member's control address says under path.
func ask(ctx context.Context, address, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	req.Close = true // no connection, and no goroutine, is kept
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcdcluster: %s answered %s", path, resp.Status)
	}
	if text, ok := answer.(*string); ok {
		all, err := io.ReadAll(resp.Body)
		*text = string(all)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
