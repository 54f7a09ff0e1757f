// Fetches a path from an HTTP server by HTTP/1.0 and prints the number of bytes, headers included.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	connection, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(connection, "GET %s HTTP/1.0\r\n\r\n", os.Args[2])
	bytes, err := io.Copy(io.Discard, connection)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(bytes)
}
