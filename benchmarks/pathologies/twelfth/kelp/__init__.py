"""A small package of a survey of kelp: settings, photographs, net and the loop over them."""
