// Package cli is the framework of the command line. It handles flags with units, their values from
// the environment and the configuration file, and progress and printing, and reports all faults at
// once. It knows no command.
package cli
