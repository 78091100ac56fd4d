package plans

import "slices"

// Holds are things in use, each with the function that ends its use. A function that takes several of them defers Drop, and ends with
// Keep if all went well: neither an error nor a panic on the way leaves one in use.
type Holds []func()

// Drop ends the use of all, the last one first.
func (h *Holds) Drop() {
	for _, end := range slices.Backward(*h) {
		end()
	}
	*h = nil
}

// Keep takes all out of h, and returns the function that ends their use.
func (h *Holds) Keep() (leave func()) {
	kept := *h
	*h = nil
	return kept.Drop
}
