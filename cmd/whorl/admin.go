package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"whorl/internal/wiring"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// adminTimeout bounds a request to a node of this machine.
	adminTimeout = 10 * time.Second
	// maxAdminReply bounds what such a node answers.
	maxAdminReply = 64 << 20
)

// adminFlags say which node a command asks, and how the answer is printed.
type adminFlags struct {
	url              string
	token, tokenFile string
	json             bool
}

func (f *adminFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "admin", "http://"+wiring.DefaultAdmin, "`URL` of the node's admin listener")
	fs.StringVar(&f.token, "admin-token", "", "token that the listener asks for (better as WHORL_ADMIN_TOKEN)")
	fs.StringVar(&f.tokenFile, "admin-token-file", "", "`FILE` with that token")
	fs.BoolVar(&f.json, "json", false, "print what the node answers, as JSON")
}

// ask sends a request; body is nil or becomes JSON. What the node refuses is an error with the
// node's own words.
func (f *adminFlags) ask(ctx context.Context, method, path string, body any, accept string) (reply []byte, media string, err error) {
	at := f.url
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, "", err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(at, "/")+path, bytes.NewReader(content))
	if err != nil {
		return nil, "", wiring.Usagef("--admin: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accept)
	token, err := wiring.AdminToken(f.tokenFile, f.token)
	if err != nil {
		return nil, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("no node answers at %s: start one, or name its admin listener with --admin: %w", at, err)
	}
	defer r.Body.Close()
	reply, err = io.ReadAll(io.LimitReader(r.Body, maxAdminReply))
	if err != nil {
		return nil, "", err
	}
	media, _, _ = mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.StatusCode/100 == 2 {
		return reply, media, nil
	}
	var problem struct{ Title, Detail string }
	if json.Unmarshal(reply, &problem) != nil || problem.Detail == "" {
		return nil, "", fmt.Errorf("what answers at %s is no admin listener of whorl: %s", at, r.Status)
	}
	return nil, "", fmt.Errorf("the node at %s refuses: %s", at, problem.Detail)
}

// into asks for JSON and decodes it.
func (f *adminFlags) into(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	b, _, err := f.ask(ctx, method, path, body, "application/json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("what answers at %s is no node of whorl: %w", f.url, err)
	}
	return nil
}

// print asks, and prints the answer: as a table where the node has one, as JSON otherwise, and
// what is said for done where it says nothing.
func (f *adminFlags) print(ctx context.Context, w *world, r errand) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout+r.wait)
	defer cancel()
	accept := "text/plain, application/json"
	if f.json {
		accept = "application/json"
	}
	b, media, err := f.ask(ctx, r.method, r.path, r.body, accept)
	switch {
	case err != nil:
		return err
	case f.json && len(b) == 0:
		b = []byte("{}\n")
	case len(b) == 0:
		b = []byte(r.done + "\n")
	case media == "application/json" && !f.json:
		var out bytes.Buffer
		if err := json.Indent(&out, bytes.TrimSpace(b), "", "  "); err != nil {
			return err
		}
		b = append(out.Bytes(), '\n')
	}
	_, err = w.out.Write(b)
	return err
}

// complete offers the values of a field of a list's items to the shell.
func (f *adminFlags) complete(path, field string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list struct{ Items []map[string]any }
		if len(args) > 0 || f.into(cmd.Context(), http.MethodGet, path, nil, &list) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, item := range list.Items {
			out = append(out, fmt.Sprint(item[field]))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
