//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"whorl/internal/fakehub"
	"whorl/internal/pgtest"
)

// composeFile is what the test reads of docker-compose.yml.
type composeFile struct {
	Services map[string]struct {
		Command     string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		Healthcheck struct{ Test []string }
	}
	Volumes map[string]any
}

// fallback is ${NAME:-TEXT}.
var fallback = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// The commands of docker-compose.yml, run as processes with folders in place of volumes, make a
// swarm that answers, from a hub, with no step by hand: no id, no token and no password is copied.
func TestCompose(t *testing.T) {
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker-compose", "-f", "../../docker-compose.yml", "config", "--quiet").CombinedOutput(); err != nil && len(out) > 0 {
		t.Errorf("docker-compose refuses the file: %v\n%s", err, out)
	} else if err != nil {
		t.Logf("not proven: docker-compose accepts the file: it is not installed")
	}
	var c composeFile
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	hub, model := fakehub.New(t), map[string][]byte{}
	for _, path := range must(filepath.Glob(toy + "/*"))(t) {
		model[filepath.Base(path)] = must(os.ReadFile(path))(t)
	}
	hub.Put("someone/toy", model)
	pg := pgtest.Start(t)
	database := must(url.Parse(pg.Database(t)))(t)

	volumes, port := map[string]string{}, ""
	for { // one below those that the system gives away: nobody has it until the bootstrap does
		port = fmt.Sprint(20_000 + rand.IntN(10_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			break
		}
	}
	for name := range c.Volumes {
		volumes[name] = t.TempDir()
	}
	volumes["socket"] = database.Query().Get("host")
	// inside turns what a container sees into what a process here sees.
	inside := func(service, text string) string {
		text = strings.ReplaceAll(text, "${WHORL_MODEL:-HuggingFaceTB/SmolLM2-135M-Instruct}", "someone/toy")
		text = fallback.ReplaceAllString(text, "$1")
		for _, v := range c.Services[service].Volumes {
			parts := strings.SplitN(v, ":", 3)
			text = strings.ReplaceAll(text, parts[1], volumes[parts[0]])
		}
		text = strings.ReplaceAll(text, "/dns4/bootstrap/tcp/31330", "/dns4/localhost/tcp/"+port)
		own := map[bool]string{true: port, false: "0"}[service == "bootstrap"]
		text = strings.ReplaceAll(text, "--port 31330", "--host-maddrs /ip4/127.0.0.1/tcp/"+own)
		return strings.NewReplacer("0.0.0.0:8300", "127.0.0.1:0", "0.0.0.0:8301", "127.0.0.1:0").Replace(text)
	}
	nodes := map[string]*node{}
	for _, service := range []string{"bootstrap", "server", "gateway"} {
		s := c.Services[service]
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: read-only %v, drops %v", service, s.ReadOnly, s.CapDrop)
		}
		// No home, as in the image: what a node keeps goes into its volumes or nowhere.
		env := []string{"PATH=" + os.Getenv("PATH"), "HF_ENDPOINT=" + hub.URL}
		for _, e := range []string{"WHORL_DATA_DIR=/data", "WHORL_CACHE_DIR=/models"} { // of the Dockerfile
			if moved := inside(service, e); moved != e {
				env = append(env, moved)
			}
		}
		for k, v := range s.Environment {
			v = inside(service, v)
			if k == "WHORL_DATABASE_URL" {
				v = strings.Replace(v, "postgres:///whorl?", "postgres://"+database.Path+"?", 1)
			}
			env = append(env, k+"="+v)
		}
		n := launchIn(t, env, strings.Fields(inside(service, s.Command))...)
		if err := n.wait(t, patience); err != nil {
			t.Fatalf("%s: %v\n%s", service, err, n.log)
		}
		check := []string{}
		for _, arg := range s.Healthcheck.Test[2:] {
			check = append(check, inside(service, arg))
		}
		if !poll(patience, func() bool { return run(t, "", append(check, "--admin", n.Admin)...).code == 0 }) {
			t.Fatalf("%s is not healthy\n%s", service, n.log)
		}
		if out := run(t, "", "node", "--admin", n.Admin); out.code == 0 || !strings.Contains(out.stderr, "token") {
			t.Errorf("%s is controlled without a token: %+v", service, out)
		}
		nodes[service] = n
	}
	token := strings.TrimSpace(string(must(os.ReadFile(filepath.Join(volumes["gateway"], "http-token")))(t)))
	ask := func(token string) (int, string) {
		r := refs(t, 8)[0]
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":8,"temperature":0,"ignore_eos":true}`, r.Prompt)
		req := must(http.NewRequest("POST", nodes["gateway"].HTTP+"/v1/completions", strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res := must(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		var b bytes.Buffer
		b.ReadFrom(res.Body)
		return res.StatusCode, b.String()
	}
	if status, body := ask(token); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask("0123456789abcdef0123"); status != 401 {
		t.Errorf("a wrong token: %d", status)
	}
	for _, name := range []string{"bootstrap", "server", "gateway"} {
		if kept := must(filepath.Glob(filepath.Join(volumes[name], "nodes", "*", "identity")))(t); len(kept) != 1 {
			t.Errorf("%s keeps %v", name, kept)
		}
	}
}

// must ends the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
