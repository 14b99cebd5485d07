"""What happens between a question and its answer: waiting, what is shown meanwhile, delivery, stopping, limits."""
