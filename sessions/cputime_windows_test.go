package sessions_test

import "time"

// processTime is the clock's time.
func processTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
