// Package chunkcache keeps chunks in memory, in leased slots.
package chunkcache
