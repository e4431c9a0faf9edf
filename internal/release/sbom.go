package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"slices"
	"strings"
)

// The parts of CycloneDX 1.5 that are used: https://cyclonedx.org/docs/1.5/json/. What a binary
// does not say, such as licences, is left out.
type (
	bill struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref,omitempty"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Purl       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// sbom lists what the Go command noted in the binary: its modules with their checksums of
// go.sum, the Go release, and the settings of the build. No time and no random number go in.
func sbom(name, version, target string, info *buildinfo.BuildInfo, sum [32]byte) ([]byte, error) {
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Component = component{
		Type: "application", Ref: name, Name: name, Version: version, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Properties: []property{{"whorl:target", target}},
	}
	for _, s := range info.Settings {
		b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:build:" + s.Key, s.Value})
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, component{Type: "library", Ref: "pkg:golang/std@" + std, Name: "std", Version: std, Purl: "pkg:golang/std@" + std})
	for _, m := range info.Deps {
		b.Components = append(b.Components, module(m))
	}
	slices.SortStableFunc(b.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(b)
	return out.Bytes(), err
}

func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, Purl: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
