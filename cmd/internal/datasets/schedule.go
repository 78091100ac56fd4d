package datasets

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
)

// Limits of a ramp, with which the weights of all its steps are exact.
const (
	maxRampSteps = 255
	maxRampSum   = 1 << 24 // of the weights, at both ends
)

// setSchedule sets the segments of a mixture from entries of position and weights, ascending. The
// position of a ramp is FIRST-LAST/LENGTH.
func setSchedule(m *address.Mixture, entries [][2]string) error {
	if m.PerBatch || m.Samples == 0 || len(entries) == 0 {
		return errors.New("must have weights, samples=N, and a schedule that maps positions to weights, such as 20480: 1/1")
	}
	last := make([]uint64, len(m.Sources))
	for i, s := range m.Sources {
		last[i] = s.Share
	}
	var rows [][]uint64
	for _, e := range entries {
		next, err := parseNumbers(e[1])
		if err == nil && len(next) != len(last) {
			err = fmt.Errorf("got %d weights for %d sources", len(next), len(last))
		}
		at, wrong := parseNumbers(strings.Replace(e[0], "-", "/", 1))
		if err == nil && (wrong != nil || len(at) != 1 && !isRamp(at)) {
			err = fmt.Errorf("must be a position, or a ramp FIRST-LAST/LENGTH of at most %d whole steps", maxRampSteps)
		}
		if err == nil && len(at) > 1 {
			rows, err = addRamp(rows, at, last, next)
		}
		if err != nil {
			return fmt.Errorf("schedule: %.40s: %w", e[0], err)
		}
		rows, last = append(rows, append([]uint64{at[len(at)/2]}, next...)), next
	}
	segments, err := address.Segments(rows, len(m.Sources))
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	m.Segments = segments
	return nil
}

// parseNumbers parses N/N/...
func parseNumbers(text string) (out []uint64, err error) {
	for part := range strings.SplitSeq(text, "/") {
		n, reason := address.ParseDecimal(part)
		if reason != "" {
			return nil, errors.New("must be whole numbers, separated by slashes")
		}
		out = append(out, n)
	}
	return out, nil
}

// isRamp reports whether numbers are the first and last position of a ramp and the length of its
// steps.
func isRamp(at []uint64) bool {
	return len(at) == 3 && at[2] > 0 && at[1] > at[0] && (at[1]-at[0])%at[2] == 0 && (at[1]-at[0])/at[2] <= maxRampSteps
}

// addRamp adds the steps of a ramp, which approach the next weights in equal parts. These hold from
// the end of the ramp.
func addRamp(rows [][]uint64, at, last, next []uint64) ([][]uint64, error) {
	var a, b uint64
	for i := range next {
		a, b = a+min(last[i], maxRampSum+1), b+min(next[i], maxRampSum+1)
	}
	if max(a, b) > maxRampSum {
		return nil, fmt.Errorf("the weights before or after the ramp sum to more than %d", maxRampSum)
	}
	steps := (at[1] - at[0]) / at[2]
	for j := range steps {
		row := []uint64{at[0] + j*at[2]}
		for i := range next {
			row = append(row, (steps-j)*last[i]*b+(j+1)*next[i]*a)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
