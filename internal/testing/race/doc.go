// Package race reports to tests whether they run under the race detector.
package race

// Enabled is true in a program that was built with -race.
const Enabled = enabled
