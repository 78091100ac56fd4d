// Package cluster knows the gateways that are one cache together: who is there, who is well, and who owns a chunk.
package cluster
