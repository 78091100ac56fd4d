//go:build race

package seeds

const raced = true
