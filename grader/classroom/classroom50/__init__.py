"""An assignment of Classroom 50: what its bundle holds, and the autograder that its runner starts."""
