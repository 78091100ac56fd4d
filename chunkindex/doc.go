// Package chunkindex knows where every sample of a data set lies.
package chunkindex
