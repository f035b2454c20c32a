"""Zero-, one- and few-shot prompting: tasks, shots, prompts, scores and what they come to."""
