package hub

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// Config of a Hub. Cache and Endpoint are required; FromEnv fills both.
type Config struct {
	Endpoint string // https://HOST, without a slash at the end
	Token    string // for gated and private models; "" for none
	Cache    string // folder, as the Python client's HF_HUB_CACHE
	Offline  bool   // send no request: what is not in the cache is an error
	Peek     bool   // only look: what is opened does not count as used
	// MaxDisk bounds the bytes of files that whorl has fetched into the cache; those used
	// longest ago go first, and never one that a process has open. 0 is no bound.
	MaxDisk int64
	Agent   string // software and version
	// Parallel is how many requests for parts of files run at once.
	Parallel int
	// Idle is how long a transfer may give no byte before it is begun again.
	Idle time.Duration
	// Attempts is how often a request that brings nothing is made, and Pause how long to
	// wait before the second; it doubles.
	Attempts  int
	Pause     time.Duration
	Transport http.RoundTripper // nil: the default one
	Log       *slog.Logger      // nil: the default one
}

// FromEnv is the configuration that the hub's own client would take from the environment:
// HF_ENDPOINT, HF_TOKEN and the token file, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE. home is
// the user's folder.
func FromEnv(getenv func(string) string, home string) (Config, error) {
	c := Config{
		Endpoint: first(getenv("HF_ENDPOINT"), DefaultEndpoint), Agent: "whorl",
		Parallel: 8, Idle: 30 * time.Second, Attempts: 5, Pause: time.Second,
	}
	c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return Config{}, fmt.Errorf("HF_ENDPOINT is %.200q: want https://HOST", c.Endpoint)
	}
	hfHome := getenv("HF_HOME")
	if hfHome == "" {
		hfHome = filepath.Join(first(getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "huggingface")
	}
	hfHome = expand(hfHome, home)
	c.Cache = expand(first(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(hfHome, "hub")), home)
	c.Offline = truth(getenv("HF_HUB_OFFLINE")) || truth(getenv("TRANSFORMERS_OFFLINE"))
	c.Token = strings.TrimSpace(first(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN")))
	if c.Token == "" && !truth(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		path := expand(first(getenv("HF_TOKEN_PATH"), filepath.Join(hfHome, "token")), home)
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return Config{}, fmt.Errorf("read the hub's token: %w", err)
		}
		c.Token = strings.TrimSpace(string(b))
	}
	if strings.ContainsAny(c.Token, " \t\r\n") || len(c.Token) > 4096 {
		return Config{}, fmt.Errorf("the hub's token of %d bytes holds white space or is too long: copy it again", len(c.Token))
	}
	return c, nil
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// truth is what the Python client takes for one.
func truth(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

func expand(path, home string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(home, path[1:])
	}
	return path
}
