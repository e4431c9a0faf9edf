package wiring

import (
	"context"
	"runtime"
	"slices"
	"strings"
)

type environKey struct{}

func WithEnviron(ctx context.Context, environ []string) context.Context {
	return context.WithValue(ctx, environKey{}, environ)
}

// Getenv is a variable that is not whorl's own, such as those of a model hub.
func Getenv(ctx context.Context, name string) string {
	environ, _ := ctx.Value(environKey{}).([]string)
	for _, pair := range slices.Backward(environ) {
		if k, v, _ := strings.Cut(pair, "="); k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}
