package courtesy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// childEnv makes this test binary a program that gives way and tells the priority of its threads.
const childEnv = "WHORL_TEST_COURTESY"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	undo, err := GiveWay()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer undo()
	// Threads that begin later, such as those that compute, all at once.
	var ready, all sync.WaitGroup
	stay := make(chan struct{})
	for range 8 {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-stay
		})
	}
	ready.Wait()
	tasks, _ := filepath.Glob("/proc/self/task/*/stat")
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); err == nil && len(f) > 16 {
			fmt.Println(f[16]) // the 19th field: nice
		}
	}
	close(stay)
	all.Wait()
	undo()
	os.Exit(0)
}

// All threads of a program that gives way do, those that begin later too.
func TestGiveWay(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"=1")
	out, err := c.CombinedOutput()
	got := strings.Fields(string(out))
	if err != nil || len(got) < 9 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, nice := range got {
		if nice != "19" {
			t.Errorf("priorities of threads: %v", got)
			break
		}
	}
}

// Only the first line counts, and rubbish is an error.
func TestIdleTime(t *testing.T) {
	if got, err := idleTime("cpu  100 0 50 700 25 0 0 0 0 0\ncpu0 1 1 1 1 1\n"); err != nil || got != 725*tick {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6", "cpu a b c d e f"} {
		if _, err := idleTime(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
