"""Everything that touches Prefect where it is private, or differs between its versions.

Written against Prefect 3.6.27 to 3.9, tried with 3.7.7. What is private, where we use it, and what is lost
without it:

=========================================  ===========================================================
``_internal.control_listener.get_intent``  `intent`: whether a SIGTERM is a cancel, since 3.6.27; without
                                           it the flow run's state on the server tells, which is a request
``TaskRunner._cancel_events``              `causes`: a submitted task learns that its flow is ending;
                                           without it only from the flow run's state
``_internal…cancellation.CancelledError``  `causes`: a timeout, as it arrives in the code that runs too
                                           long; without it our own look at the clock tells, a second later
=========================================  ===========================================================
"""

__all__: list[str] = []
