package atomicfile

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// patience is how long a rename waits for others who have the old file open: Windows
// replaces no such file, and most read one for a moment.
const patience = 2 * time.Second

func rename(from, to string) error {
	for end := time.Now().Add(patience); ; {
		err := os.Rename(from, to)
		busy := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if st, serr := os.Stat(to); !busy || serr != nil || st.IsDir() || time.Now().After(end) {
			return err
		}
		time.Sleep(time.Millisecond + rand.N(10*time.Millisecond))
	}
}

// syncDir does nothing: Windows keeps names in its own journal, and lets nobody ask for more.
func syncDir(string) error { return nil }
