package sysmem

import "os/exec"

// Available is what this process can take now.
func Available() (Free, error) {
	out, err := exec.Command("/usr/bin/vm_stat").Output()
	if err != nil {
		return Free{}, err
	}
	return readVMStat(string(out))
}
