// Package client reads epochs from a Millrace gateway. Standard library only.
package client
