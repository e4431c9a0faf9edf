package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	yamlv3 "go.yaml.in/yaml/v3"

	"whorl/api"
	"whorl/internal/wiring"
)

const (
	envPrefix = "WHORL_"
	// keyDelim would nest keys; flag names never hold it.
	keyDelim = "."
)

// source says where an effective value comes from.
type source string

const (
	fromDefault source = "default"
	fromFile    source = "file"
	fromEnv     source = "env"
	fromFlag    source = "flag"
)

// sources maps the flags of a command to where their values come from.
type sources map[string]source

// given tells whether somebody set the flag, wherever.
func (s sources) given(name string) bool { return s[name] != fromDefault && s[name] != "" }

type sourcesKey struct{}

func withSources(ctx context.Context, s sources) context.Context {
	return context.WithValue(ctx, sourcesKey{}, s)
}

func sourcesOf(cmd *cobra.Command) sources {
	s, _ := cmd.Context().Value(sourcesKey{}).(sources)
	return s
}

// configure completes a command's flags: what the command line does not give comes from
// WHORL_* variables, then from the config file, then stays at its default. An empty
// variable counts as not set, since shells and compose files make such.
func configure(cmd *cobra.Command, path string, environ []string) (sources, error) {
	fs := cmd.Flags()
	fromEnviron := koanf.New(keyDelim)
	err := fromEnviron.Load(env.Provider(keyDelim, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(k, v string) (string, any) {
			name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k, envPrefix)), "_", "-")
			if v == "" || fs.Lookup(name) == nil {
				return "", nil
			}
			return string(petalsNames(fs, name)), v
		},
	}), nil)
	if err != nil {
		return nil, wiring.Usagef("read the environment: %w", err)
	}
	if path == "" {
		path = fromEnviron.String("config")
	}
	inFile, err := readConfig(cmd, path)
	if err != nil {
		return nil, err
	}
	merged := inFile.Copy()
	if err := merged.Merge(fromEnviron); err != nil {
		return nil, wiring.Usagef("merge the environment into the config file: %w", err)
	}
	if err := merged.Load(posflag.Provider(fs, keyDelim, merged), nil); err != nil {
		return nil, wiring.Usagef("merge the flags: %w", err)
	}
	from := sources{}
	fs.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Changed:
			from[f.Name] = fromFlag
			return
		case fromEnviron.Exists(f.Name):
			from[f.Name] = fromEnv
		case inFile.Exists(f.Name):
			from[f.Name] = fromFile
		default:
			from[f.Name] = fromDefault
			return
		}
		if setErr := setFlag(f, merged.Get(f.Name)); setErr != nil && err == nil {
			where := "variable " + envPrefix + strings.ReplaceAll(strings.ToUpper(f.Name), "-", "_")
			if from[f.Name] == fromFile {
				where = fmt.Sprintf("key %s of config file %s", f.Name, path)
			}
			err = wiring.Usagef("%s: %w", where, setErr)
		}
	})
	return from, err
}

// readConfig reads the config file. Its keys are long flags; those of other commands are
// passed over, so that the nodes of one machine can share a file, and any other key is
// refused by name.
func readConfig(cmd *cobra.Command, path string) (*koanf.Koanf, error) {
	out := koanf.New(keyDelim)
	if path == "" {
		return out, nil
	}
	raw := koanf.New(keyDelim)
	if err := raw.Load(file.Provider(path), yaml.Parser()); err != nil {
		return nil, wiring.Usagef("config file %s: %w: want a YAML file such as `port: 31330`", path, err)
	}
	known := map[string]bool{}
	for _, c := range append(cmd.Root().Commands(), cmd.Root()) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	var unknown []string
	for key, val := range raw.Raw() {
		name := string(petalsNames(nil, key))
		if !known[name] {
			unknown = append(unknown, key)
			continue
		}
		if err := out.Set(name, val); err != nil {
			return nil, wiring.Usagef("config file %s: key %s: %w", path, key, err)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, wiring.Usagef("config file %s: unknown key %s: keys are the long flags of `%s --help`", path, strings.Join(unknown, ", "), cmd.CommandPath())
	}
	return out, nil
}

// setFlag gives a flag a value from the environment (text) or from YAML.
func setFlag(f *pflag.Flag, val any) error {
	list, isList := val.([]any)
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	slice, wantsList := f.Value.(pflag.SliceValue)
	switch {
	case isList && !wantsList:
		return fmt.Errorf("a list of %d values where one is wanted", len(list))
	case isList:
		return slice.Replace(texts)
	case val == nil:
		return f.Value.Set("")
	}
	if _, nested := val.(map[string]any); nested {
		return fmt.Errorf("nested keys where a value is wanted")
	}
	return f.Value.Set(fmt.Sprint(val))
}

// secret flags are shown by --print-config only as set or not.
var secret = map[string]bool{"token": true, "http-token": true, "admin-token": true}

// isSetting tells whether a flag says how a command works, and not what it shows.
func isSetting(f *pflag.Flag) bool {
	return !f.Hidden && f.Name != "help" && f.Name != "print-config" && f.Name != "config"
}

// settingsFor are the flags of a command, which are complete, as a node shows them to its operator.
func settingsFor(cmd *cobra.Command, from sources, log *wiring.Logging) *wiring.Settings {
	var begun []api.Setting
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			text := f.Value.String()
			if secret[f.Name] && text != "" {
				text = wiring.Hidden
			} else {
				text = wiring.Redacted("", text)
			}
			begun = append(begun, api.Setting{Name: f.Name, Value: text, Source: string(from[f.Name])})
		}
	})
	return wiring.NewSettings(begun, log)
}

// printConfig shows each effective value and its source, as YAML that --config takes.
func printConfig(w io.Writer, fs *pflag.FlagSet, from sources) error {
	shown := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			shown[f.Name] = showValue(f)
		}
	})
	names := slices.Sorted(maps.Keys(shown))
	width := 0
	for _, n := range names {
		width = max(width, len(n)+2+len(shown[n]))
	}
	for _, n := range names {
		line := n + ": " + shown[n]
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, line, from[n]); err != nil {
			return err
		}
	}
	return nil
}

// showValue writes a value so that YAML gives back the same text.
func showValue(f *pflag.Flag) string {
	text := f.Value.String()
	slice, isList := f.Value.(pflag.SliceValue)
	var n yamlv3.Node
	switch {
	case isList:
		n = yamlv3.Node{Kind: yamlv3.SequenceNode, Style: yamlv3.FlowStyle}
		for _, s := range slice.GetSlice() {
			n.Content = append(n.Content, yamlText(s))
		}
	case secret[f.Name] && text != "":
		n = yamlv3.Node{Kind: yamlv3.ScalarNode, Value: wiring.Hidden, Style: yamlv3.DoubleQuotedStyle}
	case plainTypes[f.Value.Type()]:
		n = yamlv3.Node{Kind: yamlv3.ScalarNode, Value: text}
	default:
		if u, err := url.Parse(text); err == nil && u.User != nil {
			text = u.Redacted()
		}
		n = *yamlText(text)
	}
	b, err := yamlv3.Marshal(&n)
	if err != nil {
		panic(err) // scalars always marshal
	}
	return strings.TrimSuffix(string(b), "\n")
}

// plainTypes are flags whose values are numbers or truths in YAML too.
var plainTypes = map[string]bool{"bool": true, "int": true, "int64": true, "uint": true, "uint64": true, "float64": true}

// yamlText is a text on one line, quoted where it could be read as anything else.
func yamlText(s string) *yamlv3.Node {
	n := new(yamlv3.Node)
	n.SetString(s)
	if n.Style == yamlv3.LiteralStyle {
		n.Style = yamlv3.DoubleQuotedStyle
	}
	return n
}
