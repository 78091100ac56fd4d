// Package cli is the framework of the command line. It parses flags with units and their values
// from the environment and the configuration file, prints results and progress, and reports all
// faults together. It contains no command.
package cli
