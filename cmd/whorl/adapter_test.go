package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"whorl/internal/fakehub"
	"whorl/internal/fixture"
)

const adapterDir = "../../model/lora/testdata"

// adapted is a prompt, and what the reference library gives for it with an adapter of TOY,
// every id by a margin.
func adapted(t *testing.T, name string) (ids, want []int32) {
	t.Helper()
	all := fixture.JSON[struct {
		Prompts []struct {
			IDs, New []int32
			Margins  []float64
		}
	}](t, filepath.Join(adapterDir, name, "ref.json.gz"))
	for _, p := range all.Prompts {
		if len(p.IDs) > 2 && slices.Min(p.Margins) > 0.001 {
			return p.IDs, p.New
		}
	}
	t.Fatal("no prompt is decided")
	return nil, nil
}

// An adapter is a folder in a local run, and a name in a swarm and in its HTTP API.
func TestAdapters(t *testing.T) {
	n := startRun(t, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100",
		"--adapters", adapterDir+"/toy-list,"+adapterDir+"/toy-regex")
	for _, name := range []string{"toy-list", "toy-regex"} {
		ids, want := adapted(t, name)
		common := []string{"--ids", listOf(ids), "--max-new-tokens", fmt.Sprint(len(want)), "--ignore-eos", "--json"}
		var local, swarm answerObject
		whorl(t, "", nil, append([]string{"generate", toy, "--local", "--adapter", filepath.Join(adapterDir, name)}, common...)...).last(t, &local)
		if !slices.Equal(local.IDs, want) {
			t.Errorf("%s, local: %v, want %v", name, local.IDs, want)
		}
		whorl(t, "", nil, append([]string{"generate", toy, "--initial-peers", n.Addrs[0], "--adapter", name}, common...)...).last(t, &swarm)
		if !slices.Equal(swarm.IDs, want) {
			t.Errorf("%s, through the swarm: %v, want %v", name, swarm.IDs, want)
		}
		body := fmt.Sprintf(`{"model":"toy:%s","prompt":[%s],"max_tokens":%d,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, name, listOf(ids), len(want))
		var c struct {
			Model   string
			Choices []struct {
				IDs []int32 `json:"token_ids"`
			}
		}
		request(t, "POST", n.HTTP+"/v1/completions", body, 200, &c)
		if c.Model != "toy:"+name || !slices.Equal(c.Choices[0].IDs, want) {
			t.Errorf("%s, over HTTP: model %s, %v, want %v", name, c.Model, c.Choices[0].IDs, want)
		}
	}
	request(t, "POST", n.HTTP+"/v1/completions", `{"model":"toy:unheard","prompt":"a"}`, 404, nil)
	r := whorl(t, "", nil, "generate", toy, "--initial-peers", n.Addrs[0], "--adapter", "unheard", "--ids", "1")
	if r.code == exitDone || !strings.Contains(r.err, "unheard") || !strings.Contains(r.err, "toy-list") {
		t.Errorf("exit code %d, %s", r.code, r.err)
	}
}

// Adapters come and go while a node runs, from a folder and from the hub, and users see them come
// and go.
func TestAdaptersWhileItRuns(t *testing.T) {
	f := fakehub.New(t)
	env := hubEnv(t, f, "someone/poems", adapterDir+"/toy-list")
	n := startRunEnv(t, env, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100")
	ask := func(name, file string, status int) {
		t.Helper()
		ids, want := adapted(t, file)
		body := fmt.Sprintf(`{"model":"toy:%s","prompt":[%s],"max_tokens":%d,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, name, listOf(ids), len(want))
		var c struct {
			Choices []struct {
				IDs []int32 `json:"token_ids"`
			}
		}
		if request(t, "POST", n.HTTP+"/v1/completions", body, status, &c); status == 200 && !slices.Equal(c.Choices[0].IDs, want) {
			t.Errorf("%s: %v, want %v", name, c.Choices[0].IDs, want)
		}
	}
	do := func(code int, want string, args ...string) {
		t.Helper()
		r := whorl(t, "", nil, append(args, "--admin", n.Admin)...)
		if r.code != code || !strings.Contains(r.stdout+r.err, want) {
			t.Errorf("whorl %v: code %d: %s%s, want %q", args, r.code, r.stdout, r.err, want)
		}
	}
	ask("toy-regex", "toy-regex", 404)
	do(exitDone, "done", "adapters", "load", adapterDir+"/toy-regex") // the command makes the path whole
	do(exitDone, `"name":"someone/poems"`, "adapters", "load", "someone/poems", "--json")
	ask("toy-regex", "toy-regex", 200)
	ask("someone/poems", "toy-list", 200)
	do(exitDone, "someone/poems", "adapters")
	do(exitDone, "[toy-regex,someone/poems]", "node", "config")
	do(exitFailed, `"toy-regex" is held already`, "adapters", "load", adapterDir+"/toy-regex")
	do(exitFailed, "holds no adapter_config.json", "adapters", "load", toy)
	do(exitFailed, "someone/nothing", "adapters", "load", "someone/nothing")
	do(exitFailed, "POST and DELETE /api/v1/adapters", "node", "config", "adapters=x")
	do(exitDone, "unload_adapter", "adapters", "unload", "someone/poems")
	do(exitFailed, `holds no adapter "someone/poems"`, "adapters", "unload", "someone/poems")
	ask("someone/poems", "toy-list", 404)
	ask("toy-regex", "toy-regex", 200)
	do(exitDone, "restart", "node", "restart", "--wait", "20s")
	ask("toy-regex", "toy-regex", 200)
}

// An adapter of a hub is fetched and checked, and is known by the repository's name.
func TestHubAdapters(t *testing.T) {
	f := fakehub.New(t)
	env := hubEnv(t, f, "someone/poems", adapterDir+"/toy-list")
	hubEnv(t, f, "someone/large", adapterDir+"/scaled-patterns")
	n := startRunEnv(t, env, "serve", toy, "--new-swarm", "--http", "127.0.0.1:0", "--throughput", "100", "--adapters", "someone/poems@main,"+adapterDir+"/toy-regex")
	ids, want := adapted(t, "toy-list")
	common := []string{"--ids", listOf(ids), "--max-new-tokens", fmt.Sprint(len(want)), "--ignore-eos", "--json"}
	var local, swarm answerObject
	whorl(t, "", append(env, "HF_HUB_OFFLINE=1"), append([]string{"generate", toy, "--local", "--adapter", "someone/poems"}, common...)...).last(t, &local)
	whorl(t, "", nil, append([]string{"generate", toy, "--initial-peers", n.Addrs[0], "--adapter", "someone/poems"}, common...)...).last(t, &swarm)
	if !slices.Equal(local.IDs, want) || !slices.Equal(swarm.IDs, want) {
		t.Errorf("local: %v, through the swarm: %v, want %v", local.IDs, swarm.IDs, want)
	}
	var c struct {
		Model   string
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	body := fmt.Sprintf(`{"model":"toy:someone/poems","prompt":[%s],"max_tokens":%d,"temperature":0,"ignore_eos":true,"return_token_ids":true}`, listOf(ids), len(want))
	request(t, "POST", n.HTTP+"/v1/completions", body, 200, &c)
	if c.Model != "toy:someone/poems" || !slices.Equal(c.Choices[0].IDs, want) {
		t.Errorf("over HTTP: model %s, %v, want %v", c.Model, c.Choices[0].IDs, want)
	}
	request(t, "GET", n.HTTP+"/v1/models/toy:someone/poems", "", 200, nil)
	for _, c := range []struct{ adapter, want string }{
		{"someone/prose", "someone/prose is no file or folder here, and the hub at " + f.URL},
		{"someone/poems@v9", `has no revision "v9"`},
		{"someone/poems,someone/poems@main", "two adapters are named someone/poems"},
		{"someone/large", "has the shape"},
	} {
		r := whorl(t, "", env, "serve", toy, "--new-swarm", "--http", "off", "--admin", "off", "--host-maddrs", loopback, "--adapters", c.adapter)
		if r.code != exitUsage || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit code %d, %s, want %q", c.adapter, r.code, r.err, c.want)
		}
	}
}

func TestAdapterFoldersAreChecked(t *testing.T) {
	twin := filepath.Join(t.TempDir(), "toy-list")
	if err := os.CopyFS(twin, os.DirFS(filepath.Join(adapterDir, "toy-list"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dirs, want string }{
		{adapterDir + "/nowhere", "nowhere"},
		{adapterDir + "/toy-list," + twin, "two adapters are named toy-list"},
		{adapterDir + "/scaled-patterns", "has the shape"},
		{strings.Repeat("a,", 64) + "a", "names 65 adapters"},
	} {
		r := whorl(t, "", nil, "serve", toy, "--new-swarm", "--http", "off", "--admin", "off", "--host-maddrs", loopback, "--adapters", c.dirs)
		if r.code != exitUsage || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit code %d, %s, want %q", c.dirs, r.code, r.err, c.want)
		}
	}
}
