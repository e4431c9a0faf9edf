package pgtest

import (
	"os/exec"
	"syscall"
)

// apart has a program run as another user, away from signals of our terminal, and end with us.
func apart(cmd *exec.Cmd, as *owner) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
}
