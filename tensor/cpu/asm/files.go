package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
)

// A tier is written as a file of assembly for each family of kernels, such as those of a
// format, so that a new format changes no other's file, and as one file of declarations. It
// ends with tables: the kernels that differ only in rows, in their order.

// text is a kernel that was begun.
type text struct{ name, signature, family string }

var (
	texts  []text
	within string
)

// family begins one: kernels belong to it from here on.
func family(name string) { within = strings.ToLower(name) }

// kernel begins a function.
func kernel(name string, attributes attr.Attribute, signature string) {
	texts = append(texts, text{name, signature, within})
	TEXT(name, attributes, signature)
}

// finish cuts the assembly of a whole tier into files of families and writes the tables.
func finish(assembly, stubs string) error {
	whole, err := os.ReadFile(assembly)
	if err != nil {
		return err
	}
	parts := strings.Split(string(whole), "\n\n// func ")
	head := parts[0]
	data := map[string]string{}
	files := map[string]*strings.Builder{}
	for i, part := range parts[1:] {
		code := cutData("\n// func "+part+"\n", data)
		f := files[texts[i].family]
		if f == nil {
			f = &strings.Builder{}
			f.WriteString(head + "\n")
			files[texts[i].family] = f
		}
		f.WriteString(code)
	}
	for name, f := range files {
		text := f.String()
		for _, symbol := range slices.Sorted(slices.Values(symbols(text))) {
			text += "\n" + data[symbol]
		}
		file := strings.Replace(assembly, "_amd64", "_"+name+"_amd64", 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Remove(assembly); err != nil {
		return err
	}
	declarations, err := os.ReadFile(stubs)
	if err != nil {
		return err
	}
	return os.WriteFile(stubs, append(declarations, tables()...), 0o644)
}

var (
	constantUse  = regexp.MustCompile(`\b(\w+)<>\+0\(SB\)`)
	constantData = regexp.MustCompile(`(?m)^(?:DATA|GLOBL) (\w+)<>.*\n`)
)

// cutData moves the constants that stand behind a function to data, by their symbols.
func cutData(code string, data map[string]string) string {
	for _, m := range constantData.FindAllStringSubmatch(code, -1) {
		data[m[1]] += m[0]
	}
	return strings.TrimRight(constantData.ReplaceAllString(code, ""), "\n") + "\n"
}

// symbols are the constants that code uses, each once.
func symbols(code string) (all []string) {
	for _, m := range constantUse.FindAllStringSubmatch(code, -1) {
		if !slices.Contains(all, m[1]) {
			all = append(all, m[1])
		}
	}
	return all
}

// ofRows takes the number of rows out of a kernel's name, which blocks may follow.
var ofRows = regexp.MustCompile(`^(\w+?)x\d+(x\d+)?$`)

// tables lists the kernels that differ in rows alone.
func tables() []byte {
	var names []string
	rows, signatures := map[string][]string{}, map[string]string{}
	for _, t := range texts {
		if m := ofRows.FindStringSubmatch(t.name); m != nil {
			name := m[1] + m[2]
			if rows[name] == nil {
				names = append(names, name)
			}
			rows[name], signatures[name] = append(rows[name], t.name), t.signature
		}
	}
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "\n// %s are kernels by rows.\nvar %s = []%s{\n\t%s,\n}\n", name, name, signatures[name], strings.Join(rows[name], ",\n\t"))
	}
	return []byte(out.String())
}
