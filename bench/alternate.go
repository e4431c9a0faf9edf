package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Slice does some of a piece of work and returns how much that was, in units of its own:
// bytes, tokens, operations.
type Slice func() (amount float64, err error)

// Alternate runs slices in turns, each for at least d, and repeats that rounds times. It
// returns rates per second: [slice][round]. Slices that follow each other in a round are
// what may be compared.
func Alternate(ctx context.Context, rounds int, d time.Duration, slices ...Slice) ([][]float64, error) {
	rates := make([][]float64, len(slices))
	for range rounds {
		for i, s := range slices {
			r, err := rate(ctx, d, s)
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], r)
		}
	}
	return rates, nil
}

// rate repeats a slice until d is over, at least once.
func rate(ctx context.Context, d time.Duration, s Slice) (float64, error) {
	sum, start := 0.0, time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := s()
		if err != nil {
			return 0, err
		}
		sum += n
		if t := time.Since(start); t >= d && t > 0 {
			return sum / t.Seconds(), nil
		}
	}
}

// errNoPairs is a bug of the caller.
var errNoPairs = errors.New("bench: no pairs to compare")

// Share is the median over the pairs of a/ceiling, which is not the ratio of the medians:
// what drifts between pairs cancels.
func Share(a, ceiling []float64) (float64, error) {
	if len(a) == 0 || len(a) != len(ceiling) {
		return 0, errNoPairs
	}
	ratios := make([]float64, len(a))
	for i := range a {
		if ceiling[i] <= 0 {
			return 0, errNoPairs
		}
		ratios[i] = a[i] / ceiling[i]
	}
	return Median(ratios), nil
}

// Median is the middle of v, or the mean of the two in the middle; 0 if v is empty. It
// leaves v as it is.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
