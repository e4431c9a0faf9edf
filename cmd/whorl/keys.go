package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"whorl/api/control"
	"whorl/internal/keys"
	"whorl/internal/wiring"
)

// bookFlags say where a command finds the book of keys: at a node of this machine, or itself.
type bookFlags struct {
	adminFlags
	keys, databaseURL string
}

func (f *bookFlags) add(fs *pflag.FlagSet) {
	f.adminFlags.add(fs)
	fs.StringVar(&f.keys, "keys", "", "`FILE` of keys to work on, or \"database\", without asking a node")
	fs.StringVar(&f.databaseURL, "database-url", "", "Postgres `URL`, for --keys database")
}

// with opens the book for a command.
func (f *bookFlags) with(ctx context.Context, do func(ctx context.Context, b keys.Book) error) error {
	b, done, err := wiring.OpenBook(f.keys, f.databaseURL)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, wiring.KeyTime)
	defer cancel()
	return do(ctx, b)
}

// newKeys is `whorl keys`.
func newKeys(w *world) *cobra.Command {
	f := new(bookFlags)
	list := func(cmd *cobra.Command, _ []string) error {
		if f.keys == "" {
			return f.print(cmd.Context(), w, errand{method: http.MethodGet, path: v1 + "/keys"})
		}
		return f.with(cmd.Context(), func(ctx context.Context, b keys.Book) error {
			all, err := b.List(ctx)
			if err != nil {
				return err
			}
			return printKeys(w, all, f.json)
		})
	}
	cmd := &cobra.Command{
		Use: "keys", Short: "List the keys of those who may use a gateway, and make and remove them",
		Long: `A key says who a caller is, what they may do, how much, and until when. A node with --keys
takes keys wherever it takes a token. Of a key's secret only a hash is kept. These commands ask a
running node, or with --keys work on the book itself.`,
		Args: noArgs, RunE: list,
	}
	remove := &cobra.Command{
		Use: "rm KEY", Short: "Remove a key, by its name or id: what it began goes on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.keys == "" {
				return f.print(cmd.Context(), w, errand{method: http.MethodDelete, path: v1 + "/keys/" + url.PathEscape(args[0]), done: "removed"})
			}
			return f.with(cmd.Context(), func(ctx context.Context, b keys.Book) error {
				ok, err := b.Remove(ctx, args[0])
				if err == nil && !ok {
					err = fmt.Errorf("there is no key %q: whorl keys list shows those that are there", args[0])
				}
				if err == nil {
					_, err = fmt.Fprintln(w.out, "removed")
				}
				return err
			})
		},
		ValidArgsFunction: f.complete(v1+"/keys", "name"),
	}
	cmd.AddCommand(newKey(w, f), remove, &cobra.Command{Use: "list", Short: "List the keys, without their secrets", Args: noArgs, RunE: list})
	f.add(cmd.PersistentFlags())
	return cmd
}

// newKey is `whorl keys add`.
func newKey(w *world, f *bookFlags) *cobra.Command {
	var scopes []string
	var limits keys.Limits
	var until string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a key and print its secret, which is shown this once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			expires, err := untilWhen(until, time.Now())
			if err != nil {
				return err
			}
			k, secret, err := keys.New(args[0], keys.Convert[keys.Scope](scopes), limits, time.Now(), expires)
			if err != nil {
				return wiring.Usage(err)
			}
			made := struct {
				ID     string `json:"id"`
				Name   string `json:"name"`
				Secret string `json:"secret"`
			}{k.ID, k.Name, secret}
			if f.keys == "" {
				ask := map[string]any{"name": k.Name, "scopes": k.Scopes, "requests_per_minute": limits.Requests, "tokens_per_minute": limits.Tokens, "answers": limits.Answers}
				if !expires.IsZero() {
					ask["expires"] = k.Expires
				}
				err = f.into(cmd.Context(), http.MethodPost, v1+"/keys", ask, &made)
			} else {
				err = f.with(cmd.Context(), func(ctx context.Context, b keys.Book) error { return b.Add(ctx, k) })
				if errors.Is(err, keys.ErrTaken) {
					err = fmt.Errorf("%q: %w", k.Name, err)
				}
			}
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(w.out, made)
			}
			_, err = fmt.Fprintln(w.out, made.Secret)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&scopes, "scope", []string{string(keys.Infer)}, "what the key allows: read, infer, operate (and read), admin (all)")
	fs.StringVar(&until, "expires", "", "when it ends: a `TIME` such as 2027-01-31T12:00:00Z, or from now, such as 90d or 12h; default: never")
	fs.IntVar(&limits.Requests, "requests", 0, "most requests a minute; 0: no limit")
	fs.IntVar(&limits.Tokens, "tokens", 0, "most tokens a minute, of prompts and answers; 0: no limit")
	fs.IntVar(&limits.Answers, "answers", 0, "most answers at a time; 0: no limit")
	cmd.RegisterFlagCompletionFunc("scope", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return keys.Convert[cobra.Completion](keys.Scopes()), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// untilWhen reads a time, or how long from now.
func untilWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); err == nil && n == 1 && text == fmt.Sprintf("%dd", days) && days > 0 && days <= 100*365 {
		return now.AddDate(0, 0, days), nil
	}
	if long, err := time.ParseDuration(text); err == nil && long > 0 {
		return now.Add(long), nil
	}
	return time.Time{}, wiring.Usagef("--expires %q: want a time such as 2027-01-31T12:00:00Z, or how long from now, such as 90d or 12h", text)
}

// printKeys lists keys, in JSON in the form in which a node does.
func printKeys(w *world, all []keys.Key, asJSON bool) error {
	type item struct {
		keys.Key
		Hash string `json:"sha256,omitempty"` // left out
	}
	if asJSON {
		items := make([]item, len(all))
		for i, k := range all {
			items[i] = item{Key: k}
		}
		return printJSON(w.out, map[string]any{"items": items})
	}
	control.WriteKeys(w.out, all)
	return nil
}
