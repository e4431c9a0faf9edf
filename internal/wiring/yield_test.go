package wiring

import "testing"

// A node gives way where somebody works at the machine and started it; flags win.
func TestGives(t *testing.T) {
	for _, c := range []struct {
		yield, goos string
		env         map[string]string
		want        bool
	}{
		{"auto", "linux", map[string]string{"DISPLAY": ":0"}, true},
		{"auto", "linux", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, true},
		{"auto", "linux", nil, false},
		{"auto", "linux", map[string]string{"DISPLAY": ":0", "INVOCATION_ID": "1"}, false},
		{"auto", "darwin", nil, true},
		{"auto", "windows", nil, true},
		{"on", "linux", nil, true},
		{"on", "linux", map[string]string{"INVOCATION_ID": "1"}, true},
		{"off", "darwin", nil, false},
	} {
		if got := gives(c.yield, c.goos, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("--yield %s on %s with %v: %v", c.yield, c.goos, c.env, got)
		}
	}
}
