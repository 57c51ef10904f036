"""How a data set is curated, apart from doing it: settings, questions, and what a curation has left unfinished."""
