package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"whorl/bench"
	"whorl/internal/wiring"
)

// localIterations counts those of a local run.
func localIterations(l *wiring.LocalSwarm) func(context.Context) (bench.Iterations, error) {
	return func(context.Context) (bench.Iterations, error) {
		s := l.Server.Status()
		return bench.Iterations{Steps: float64(s.Steps), Sessions: float64(s.Batch.Sessions), Waited: s.Batch.WaitedSeconds}, nil
	}
}

// maxMetrics bounds what is read of a server's metrics, in bytes.
const maxMetrics = 4 << 20

// scrape reads the counters of servers from their metrics and adds them up.
func (f *servingFlags) scrape(client *http.Client) func(context.Context) (bench.Iterations, error) {
	return func(ctx context.Context) (bench.Iterations, error) {
		var sum bench.Iterations
		for _, base := range f.metrics {
			if err := f.scrapeOne(ctx, client, base, &sum); err != nil {
				return sum, fmt.Errorf("metrics of %s: %w", base, err)
			}
		}
		return sum, nil
	}
}

func (f *servingFlags) scrapeOne(ctx context.Context, client *http.Client, base string, sum *bench.Iterations) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/metrics", nil)
	if err != nil {
		return err
	}
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
	case base == f.url:
		return nil // nobody asked for them
	default:
		return errors.New(resp.Status)
	}
	return addIterations(io.LimitReader(resp.Body, maxMetrics), sum)
}

// addIterations reads counters in the text form of Prometheus. Lines of others are passed
// over, and a node that is no server has none.
func addIterations(r io.Reader, sum *bench.Iterations) error {
	fields := map[string]*float64{
		"whorl_server_steps_total": &sum.Steps, "whorl_server_step_sessions_total": &sum.Sessions, "whorl_server_step_wait_seconds_total": &sum.Waited,
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if field := fields[name]; field != nil {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			*field += v
		}
	}
	return lines.Err()
}
