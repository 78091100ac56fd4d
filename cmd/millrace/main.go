// Command millrace serves shuffled batches of training data from object stores.
package main

func main() {}
