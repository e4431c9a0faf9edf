package wiring

import (
	"fmt"
	"strings"
)

// parseAliases reads other names of models, each as NAME=MODEL.
func parseAliases(texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		name, model, ok := strings.Cut(text, "=")
		name, model = strings.TrimSpace(name), strings.TrimSpace(model)
		if !ok || name == "" || model == "" {
			return nil, fmt.Errorf("%.100q is no NAME=MODEL", text)
		}
		if old, twice := out[name]; twice && old != model {
			return nil, fmt.Errorf("%.100q stands for %.100q and %.100q: want one", name, old, model)
		}
		out[name] = model
	}
	return out, nil
}
