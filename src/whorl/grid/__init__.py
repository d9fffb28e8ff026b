"""Many runs at once: a queue of jobs, a pool of worker processes, and the messages between them."""
