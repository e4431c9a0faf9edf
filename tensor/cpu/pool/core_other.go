//go:build !linux || !amd64 || purego

package pool

func core() int64 { return -1 }

func leaveCore(int64) {}
