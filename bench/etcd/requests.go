//go:build !race

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// requests counts what the members have received from clients, messages of
// streams too, by their own count.
func (s *servers) requests(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, e := range s.endpoints {
		n, err := received(ctx, "http://"+e+"/metrics")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func received(ctx context.Context, url string) (float64, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	sum, found := 0.0, false
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "grpc_server_msg_received_total{") {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q: %w", url, line, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		return 0, fmt.Errorf("%s does not count messages", url)
	}
	return sum, lines.Err()
}
