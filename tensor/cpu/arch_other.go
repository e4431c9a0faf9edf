//go:build !amd64 || purego

package cpu

// archTiers is empty: this build has only the generic tier.
func archTiers() []namedTier { return nil }
