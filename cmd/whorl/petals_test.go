package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// runServer are the flags of Petals' run_server at version 2.3.0.dev2, runDHT those of its
// run_dht.
const (
	runServer = `config converted_model_name_or_path public_name token use_auth_token num_blocks block_indices dht_prefix port public_ip
no_auto_relay host_maddrs announce_maddrs daemon_startup_timeout compression num_handlers prefetch_batches sender_threads
inference_max_length min_batch_size max_batch_size max_chunk_size_bytes attn_cache_tokens cache_dir max_disk_space device torch_dtype
max_alloc_timeout revision throughput update_period expiration request_timeout session_timeout step_timeout initial_peers new_swarm
increase_file_limit stats_report_interval custom_module_path identity_path balance_quality mean_balance_check_period quant_type
tensor_parallel_devices skip_reachability_check adapters`
	runDHT = `initial_peers host_maddrs announce_maddrs use_ipfs identity_path no_relay use_auto_relay refresh_period`
)

func TestEveryPetalsFlagHasARow(t *testing.T) {
	w := world{strings.NewReader(""), os.Stdout, os.Stderr, os.Environ}
	for _, c := range []struct {
		command, flags string
		table          []petalsFlag
	}{{"serve", runServer, serverFlags}, {"bootstrap", runDHT, bootstrapFlags}} {
		cmd, _, err := newRoot(&w).Find([]string{c.command})
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]petalsFlag{}
		for _, p := range c.table {
			if p.note == "" || rows[p.name].name != "" {
				t.Errorf("%s: --%s has no note, or two rows", c.command, p.name)
			}
			rows[p.name] = p
		}
		for _, name := range strings.Fields(c.flags) {
			f := cmd.Flags().Lookup(name)
			if f == nil {
				f = cmd.InheritedFlags().Lookup(name)
			}
			if f == nil {
				t.Errorf("%s does not know --%s", c.command, name)
				continue
			}
			p, has := rows[name]
			if !has && c.command == "serve" {
				t.Errorf("--%s has no row in the table", name)
			}
			if has && f.Hidden != (p.verdict != honoured) {
				t.Errorf("%s --%s is %s, and hidden: %v", c.command, name, p.verdict, f.Hidden)
			}
			delete(rows, name)
		}
		for name := range rows {
			t.Errorf("%s: the table has --%s, which is no flag of Petals", c.command, name)
		}
	}
}

// A flag without effect says why, and one that cannot be obeyed is refused.
func TestInertFlags(t *testing.T) {
	for _, p := range serverFlags {
		if p.verdict == honoured {
			continue
		}
		args := []string{"serve", "--new-swarm", "--" + p.name}
		if takesValue[p.name] {
			args = append(args, "7")
		}
		// Without MODEL the command ends right after these checks.
		r := whorl(t, "", nil, args...)
		if r.code != exitUsage {
			t.Errorf("--%s: exit code %d\n%s", p.name, r.code, r.err)
		}
		switch warns := strings.Contains(r.err, "has no effect"); {
		case p.verdict == warned && (!warns || !strings.Contains(r.err, "no MODEL given")):
			t.Errorf("--%s should warn and go on:\n%s", p.name, r.err)
		case p.verdict == refused && (warns || !strings.Contains(r.err, "cannot be obeyed")):
			t.Errorf("--%s should be refused:\n%s", p.name, r.err)
		case !strings.Contains(r.err, p.note):
			t.Errorf("--%s does not say why:\n%s", p.name, r.err)
		}
	}
}

func TestDocumentedFlags(t *testing.T) {
	doc, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string][]petalsFlag{"run_server": serverFlags, "run_dht": bootstrapFlags} {
		if want := flagTable(table); !strings.Contains(string(doc), want) {
			t.Errorf("docs/flags.md lacks the table of %s as the code has it; put this there:\n%s", name, want)
		}
	}
}

// flagTable is a table as docs/flags.md shows it.
func flagTable(table []petalsFlag) string {
	var b strings.Builder
	b.WriteString("| flag of Petals | here | what it does, or why it does nothing |\n|---|---|---|\n")
	for _, p := range table {
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", p.name, p.verdict, p.note)
	}
	return b.String()
}
