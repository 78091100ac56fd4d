package plans

import "slices"

// Holds are the release functions of acquired resources. A function that acquires resources for its
// caller adds them to the caller's Holds, so that neither an error nor a panic leaks a resource.
type Holds []func()

// Add adds the release function of a resource, unless acquiring it has failed.
func (h *Holds) Add(release func(), err error) error {
	if err == nil {
		*h = append(*h, release)
	}
	return err
}

// Drop releases all resources, the last one first.
func (h *Holds) Drop() {
	for _, end := range slices.Backward(*h) {
		end()
	}
	*h = nil
}

// Keep empties h and returns a function that releases its resources.
func (h *Holds) Keep() (leave func()) {
	kept := *h
	*h = nil
	return kept.Drop
}
