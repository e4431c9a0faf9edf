//go:build !linux

package pgtest

import "os/exec"

// apart runs a program as we are: what Linux adds other systems lack, or do another way.
func apart(*exec.Cmd, *owner) {}
